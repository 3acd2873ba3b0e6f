// Package eventloop serves connections with few threads: one loop for each processor
// waits for the events of all its sockets, and runs what they wake up to its next wait.
//
// What serves a connection is a [Task], a coroutine: code that reads, writes and waits like
// that of a goroutine, but a wait switches back to the loop in place of Go's scheduler,
// and the loop switches to the next task whose socket is ready. A task is so as cheap as
// a state machine and is written like a goroutine (decision 0087). It runs on the thread of its loop
// and must not block there in anything but a [Conn]: before it does, or computes for
// long, it calls [Task.Leave] and goes on as a goroutine until [Task.Rejoin].
//
// What is so short that the switch to a task would cost more is a step: a function that the loop
// calls when there is something to read, see [Conn.Watch].
//
// A [Conn] is a net.Conn on a socket that no poller but the loop's has. It is bound to the
// task that waits for it; without one, or while the task is away, a goroutine that uses it
// waits as usual. A connection with several tasks, such as one of HTTP/2, has its writes queued, so
// that none of them waits with what the others need: see [Conn.QueueWrites]. What is no connection is
// waited for with a [Cond]. A [Pipe] moves data
// between two connections within the kernel (decision 0089). [Conn.Detach] takes the socket out
// of the loop for good.
//
// Guarantees: Close and the deadlines may be called from any goroutine and end waits, as
// those of package net; a descriptor is closed only when no system call uses it; an event for
// a connection that was closed reaches no other. Deadlines are late by up to two ticks of a
// timer wheel (16 ms each). A task that moves much data gives way to others after 256 KiB.
//
// Linux only: elsewhere [New] returns [ErrUnsupported].
package eventloop

import "errors"

// ErrUnsupported is returned where there are no event loops.
var ErrUnsupported = errors.New("event loops need Linux")
