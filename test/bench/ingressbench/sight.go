package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sight is a watch that records when each resource version was received. It
// measures the part of a delay that the API server needs to deliver an event to
// any client. mu guards seen and news.
type sight struct {
	stop  func()
	ended chan struct{}

	mu   sync.Mutex
	seen map[string]time.Time // by resource version
	// news is closed and replaced at every event, which wakes all waiters.
	news chan struct{}
}

// listWatcher lists and watches objects of a kind.
type listWatcher[List metav1.ListInterface] interface {
	List(context.Context, metav1.ListOptions) (List, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// look starts a watch at the current resource version. The caller must close it.
func look[List metav1.ListInterface](ctx context.Context, of listWatcher[List]) (*sight, error) {
	list, err := of.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	stream, err := of.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	s := &sight{stop: stream.Stop, ended: make(chan struct{}), seen: map[string]time.Time{}, news: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for event := range stream.ResultChan() {
			// The time is taken before the lock, which a waiter may hold.
			now := time.Now()
			if object, ok := event.Object.(metav1.Object); ok {
				s.note(object.GetResourceVersion(), now)
			}
		}
	}()
	return s, nil
}

// note records an event and wakes the waiters.
func (s *sight) note(version string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[version] = at
	close(s.news)
	s.news = make(chan struct{})
}

// when waits until a version has been received and returns the time of it. It
// fails when the watch ends, because the event would never come.
func (s *sight) when(ctx context.Context, version string) (time.Time, error) {
	for {
		s.mu.Lock()
		at, seen := s.seen[version]
		news := s.news
		s.mu.Unlock()
		if seen {
			return at, nil
		}
		select {
		case <-news:
		case <-s.ended:
			return time.Time{}, errors.New("the watch of the benchmark ended")
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// close stops the watch and waits for its goroutine.
func (s *sight) close() {
	s.stop()
	<-s.ended
}
