package main

import (
	"context"
	"errors"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// repair is what became of a Deployment that was changed.
type repair struct {
	at     time.Time // when the change was made
	seen   bool      // the change was seen
	mended time.Time
}

// repairs are those of one phase. A repair can be seen before the call that made
// the change has returned.
type repairs struct {
	mu   sync.Mutex
	all  map[string]*repair
	news chan struct{}
}

func newRepairs() *repairs {
	return &repairs{all: map[string]*repair{}, news: make(chan struct{}, 1)}
}

func (r *repairs) expect(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[name] = &repair{}
}

func (r *repairs) spoiled(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[name].at = time.Now()
}

// watch follows the Deployments until the context is done.
func (r *repairs) watch(ctx context.Context, w *world) error {
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
		case r.news <- struct{}{}:
		default:
		}
	}
}

// wait waits until all are repaired.
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

// delays are from the change to the repair.
func (r *repairs) delays() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var delays []time.Duration
	for _, of := range r.all {
		delays = append(delays, max(0, of.mended.Sub(of.at)))
	}
	return delays
}
