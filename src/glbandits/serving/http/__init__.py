"""The service over HTTP. Plain ASGI: a request comes in whole, a handler makes a response of it."""
