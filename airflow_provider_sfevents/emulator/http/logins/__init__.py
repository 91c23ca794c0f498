"""OAuth, SOAP login and userinfo."""
