"""Google's services that the Cloud TPU client does not speak to, over plain REST: quota, prices, billing, storage."""
