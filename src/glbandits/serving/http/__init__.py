"""The service over HTTP: a connection makes requests of bytes, a handler makes a response of a request."""
