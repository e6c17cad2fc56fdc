"""Read the headers of still pictures from their first bytes; leave rare ones to Pillow."""
