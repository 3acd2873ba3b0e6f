//go:build linux

package eventloop

import (
	"sync"
	"testing"
	"time"
)

// TestCond has tasks of two loops and goroutines wait for the same condition, and each kind wake
// them.
func TestCond(t *testing.T) {
	const each, rounds = 5, 200
	group, err := New(2)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	var mu sync.Mutex
	var turn Cond
	turn.Init(&mu)
	next, users := 0, 3*each
	var running sync.WaitGroup
	take := func(own int, by *Task) {
		defer running.Done()
		mu.Lock()
		defer mu.Unlock()
		for range rounds {
			for next%users != own {
				turn.Wait(by)
			}
			next++
			turn.Wake(by)
		}
	}
	running.Add(users)
	for i := range each {
		go take(i*3, nil)
		group.loops[0].Start(func(task *Task) { take(i*3+1, task) })
		group.loops[1].Start(func(task *Task) { take(i*3+2, task) })
	}
	running.Wait()
	if next != users*rounds {
		t.Errorf("%d turns, want %d", next, users*rounds)
	}
}

// TestCondDeadline ends waits with the deadline, also one that is set meanwhile, or brought
// forward.
func TestCondDeadline(t *testing.T) {
	group, err := New(1)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	for _, first := range []time.Time{{}, time.Now().Add(time.Hour), time.Now().Add(time.Millisecond)} {
		var mu sync.Mutex
		var never Cond
		never.Init(&mu)
		var running sync.WaitGroup
		wait := func(by *Task) {
			defer running.Done()
			mu.Lock()
			defer mu.Unlock()
			for !never.Expired() {
				never.Wait(by)
			}
		}
		mu.Lock()
		never.SetDeadline(first)
		mu.Unlock()
		running.Add(2)
		go wait(nil)
		group.loops[0].Start(wait)
		mu.Lock()
		never.SetDeadline(time.Now().Add(10 * time.Millisecond))
		mu.Unlock()
		running.Wait()
		mu.Lock()
		never.Stop()
		mu.Unlock()
	}
}
