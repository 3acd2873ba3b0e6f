package tlsstore_test

import (
	"sync/atomic"
	"time"
)

// testClock is a clock that a test moves.
type testClock struct{ offset atomic.Int64 }

func newClock() *testClock { return &testClock{} }

func (c *testClock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

func (c *testClock) advance(d time.Duration) { c.offset.Add(int64(d)) }
