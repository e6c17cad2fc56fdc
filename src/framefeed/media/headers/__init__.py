"""Facts of still pictures, from their first bytes where those say it plainly, else from Pillow."""
