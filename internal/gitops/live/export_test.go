package live

import "time"

// Hurry makes a Cache try again soon.
func (c *Cache) Hurry(first, denied time.Duration) {
	c.pace.first, c.pace.longest, c.pace.denied = first, first, denied
}

// Paged makes lists of small pages.
func (c *Cache) Paged(size int64) { c.pace.page = size }

// At replaces the clock.
func (k *Kinds) At(now func() time.Time) { k.now = now }
