package workers_test

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every value is served once, by no more goroutines than there are values at a
// time, and the idle ones end with the last user.
func TestPool(t *testing.T) {
	const rounds, width = 50, 8
	var served sync.Map
	var group sync.WaitGroup
	pool := workers.New(func(value int) {
		if _, again := served.LoadOrStore(value, true); again {
			t.Errorf("%d was served twice", value)
		}
		group.Done()
	})
	pool.AddUser()
	for round := range rounds {
		group.Add(width)
		for i := range width {
			pool.Serve(round*width + i)
		}
		group.Wait()
	}
	pool.RemoveUser()
	for value := range rounds * width {
		if _, ok := served.Load(value); !ok {
			t.Errorf("%d was not served", value)
		}
	}
}

// Without a user a worker ends after its value.
func TestNoUser(t *testing.T) {
	done := make(chan bool, 1)
	workers.New(func(int) { done <- true }).Serve(1)
	<-done
}
