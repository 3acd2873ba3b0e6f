package main

import (
	"context"
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// repair is the state of one changed Deployment.
type repair struct {
	at     time.Time // when the change was made
	seen   bool      // the change was seen
	mended time.Time
}

// repairs tracks the changed Deployments of the drift phase. The watch can
// deliver a repair before the patch that made the change returns, so entries
// exist before the patch. mu guards all; news has capacity 1 and wakes wait.
type repairs struct {
	mu   sync.Mutex
	all  map[string]*repair
	news chan struct{}
}

// newRepairs returns an empty set. Deployments are added by expect.
func newRepairs() *repairs {
	return &repairs{all: map[string]*repair{}, news: make(chan struct{}, 1)}
}

// expect adds a Deployment that is about to be changed.
func (r *repairs) expect(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[name] = &repair{}
}

// spoiled records the time at which the patch returned, from which the delay
// counts.
func (r *repairs) spoiled(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[name].at = time.Now()
}

// watch feeds Deployment events into note until ctx is done. It returns an
// error if the API server ends the watch earlier: a missed event would leave a
// repair open until the timeout.
func (r *repairs) watch(ctx context.Context, w *world) error {
	// The list provides the resource version to start from; its items are not
	// needed.
	list, err := w.Client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	stream, err := w.Client.AppsV1().Deployments("").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer stream.Stop()
	for event := range stream.ResultChan() {
		if deployment, ok := event.Object.(*appsv1.Deployment); ok {
			r.note(deployment, time.Now())
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.New("the watch of the benchmark ended")
}

// note processes one event. Only a restored field after the change has been
// seen counts as a repair: events from before it show the same value.
func (r *repairs) note(deployment *appsv1.Deployment, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.all[deployment.Name]
	switch {
	case of == nil:
		return
	case deployment.Spec.Template.Annotations["example.com/revision"] == "spoiled":
		of.seen = true
	case of.seen && of.mended.IsZero():
		of.mended = now
		select {
		// A signal that is still pending covers this repair too.
		case r.news <- struct{}{}:
		default:
		}
	}
}

// wait blocks until every expected Deployment is repaired, or returns the cause
// when ctx is done.
func (r *repairs) wait(ctx context.Context) error {
	for {
		r.mu.Lock()
		open := 0
		for _, of := range r.all {
			if of.mended.IsZero() {
				open++
			}
		}
		r.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// delays returns the time from change to repair of each Deployment. A repair
// that was observed before the patch returned counts as zero.
func (r *repairs) delays() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var delays []time.Duration
	for _, of := range r.all {
		delays = append(delays, max(0, of.mended.Sub(of.at)))
	}
	return delays
}
