package workers

import (
	"testing"
	"testing/synctest"
	"time"
)

// Workers that are not needed end, and those that are stay.
func TestIdleEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan bool)
		pool := New(func(wait bool) {
			if wait {
				<-block
			}
		})
		idle := func() int {
			synctest.Wait()
			pool.mu.Lock()
			defer pool.mu.Unlock()
			return len(pool.idle)
		}
		pool.AddUser()
		for range 100 {
			pool.Serve(true)
		}
		close(block)
		if got := idle(); got != 100 {
			t.Errorf("%d workers are idle after 100 were busy", got)
		}
		for range 50 {
			pool.Serve(false)
			<-time.After(idlePeriod / 10)
		}
		if got := idle(); got != 1 {
			t.Errorf("%d workers are idle, and one is needed", got)
		}
		<-time.After(3 * idlePeriod)
		if got := idle(); got != 0 {
			t.Errorf("%d workers are idle, and none is needed", got)
		}
		pool.RemoveUser()
	})
}
