//go:build !linux

package listener

// Gone is not implemented here.
func (c *Conn) Gone() bool { return false }
