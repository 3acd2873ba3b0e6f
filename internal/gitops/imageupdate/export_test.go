package imageupdate

// ImagePushed is the event of a registry.
func (c *Controller) ImagePushed(name string) { c.imagePushed(name) }
