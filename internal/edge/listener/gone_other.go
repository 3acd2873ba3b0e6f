//go:build !linux

package listener

// Gone does not know here.
func (c *Conn) Gone() bool { return false }
