"""Objects over the network, read by ranges: http(s) and s3, with signatures of our own."""
