package filter

// DistinguishedName is the parser of names.
var DistinguishedName = distinguishedName

// HoldPasswordChecks makes password checks wait until release is called.
func HoldPasswordChecks(c *Counters) (release func()) {
	for range cap(c.passwords) {
		c.passwords <- struct{}{}
	}
	return func() {
		for range cap(c.passwords) {
			<-c.passwords
		}
	}
}
