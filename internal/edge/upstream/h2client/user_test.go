package h2client_test

import (
	"sync"
	"testing"

	"slipway.dev/slipway/internal/edge/eventloop"
)

// suite is how the tests use connections: by goroutines, unless TestLooped runs them.
var suite struct {
	loop  *eventloop.Loop // that has the connections
	tasks bool            // streams are opened for tasks of it
	leave bool            // and the tasks leave it at once
}

// user is a task that uses a stream, on behalf of a test.
type user struct {
	task *eventloop.Task
	mu   sync.Mutex // guards the rest
	todo []func()
	over bool
	wake eventloop.Cond
}

// newUser starts a user that ends with the test.
func newUser(t testing.TB, loop *eventloop.Loop) *user {
	u := &user{}
	u.wake.Init(&u.mu)
	ended := make(chan struct{})
	loop.Start(func(task *eventloop.Task) {
		defer close(ended)
		u.serve(task)
	})
	t.Cleanup(func() {
		u.mu.Lock()
		u.over = true
		u.wake.Wake(nil)
		u.mu.Unlock()
		<-ended
	})
	return u
}

func (u *user) serve(task *eventloop.Task) {
	u.task = task
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		for len(u.todo) == 0 && !u.over {
			u.wake.Wait(task)
		}
		if len(u.todo) == 0 {
			return
		}
		next := u.todo[0]
		u.todo = u.todo[1:]
		u.mu.Unlock()
		next()
		u.mu.Lock()
	}
}

// do runs f as the task, and waits for its end. Without a user the caller runs it.
func (u *user) do(f func()) {
	if u == nil {
		f()
		return
	}
	done := make(chan struct{})
	u.mu.Lock()
	u.todo = append(u.todo, func() {
		defer close(done)
		f()
	})
	u.wake.Wake(nil)
	u.mu.Unlock()
	<-done
}
