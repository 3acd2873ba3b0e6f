package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	// mostRollback is how long a bad revision may serve requests, from its first
	// response to its last one, and mostFailed which part of all requests may
	// fail meanwhile.
	mostRollback = 10 * time.Second
	mostFailed   = 0.002
	// leastRate is the number of requests per second below which a rollback
	// proves little.
	leastRate = 200
)

// Revisions of releases, as responses name them.
const (
	badRevision  = "bad"
	goodRevision = "good"
)

// policyManifest is the format of a ReleasePolicy with one step: its share and
// the requests that end it. All containers share the processors of one machine,
// so small differences of the latency are no property of a revision.
const policyManifest = `apiVersion: slipway.dev/v1alpha1
kind: ReleasePolicy
metadata: {name: shop}
spec:
  steps: [{weight: %d, requests: %d}]
  guards: {latencyIncrease: 200ms}
`

// release pushes a revision of the application that responds as the one before,
// with more variables, and a policy for its release.
func (s *scene) release(revision, variables string, weight, requests int) (string, error) {
	return s.git.push("the revision "+revision, map[string]string{
		"shop/policy.yaml": fmt.Sprintf(policyManifest, weight, requests),
		"shop/shop.yaml":   shop("welcome", ", annotations: {slipway.dev/release: shop}", ", {name: REVISION, value: "+revision+"}"+variables),
	})
}

// rollBack releases a revision that fails 5 % of its requests at a share of
// 10 %, under traffic through the edges. Its step needs more requests than there
// are, so only the judge can end it. The Application has to be held at the
// commit before.
func (s *scene) rollBack(ctx context.Context) (string, error) {
	message := ""
	load, err := s.loadFor(ctx, "welcome", 2*time.Second, func() error {
		commit, err := s.release(badRevision, `, {name: ERRORS, value: "5"}`, 10, 1_000_000)
		if err != nil {
			return err
		}
		message, err = s.held(ctx, commit)
		return err
	})
	if err != nil {
		return "", err
	}
	span, served := load.Revisions[badRevision]
	if !served {
		return "", fmt.Errorf("the bad revision served none of %d requests", load.Requests)
	}
	about := fmt.Sprintf("after %.1f s, in which %d of %d requests failed: %s", span.Took.Seconds(), span.Failures, span.Requests, message)
	rate := float64(span.Requests) / max(span.Took.Seconds(), 1)
	switch {
	case span.Took > mostRollback, float64(span.Failures) > mostFailed*float64(span.Requests):
		return "", fmt.Errorf("%s: %v", about, load.Errors)
	case rate < leastRate:
		return "", fmt.Errorf("%s: only %.0f requests per second were sent", about, rate)
	}
	return about, nil
}

// held waits until the platform has the application held at another commit than
// the last one, and returns the reason.
func (s *scene) held(ctx context.Context, commit string) (message string, err error) {
	err = s.until(ctx, func(ctx context.Context) error {
		text, err := s.slipway(ctx, "", "app", "get", application, "--runtime", runtimeName, "--output", "json")
		if err != nil {
			return err
		}
		var found struct {
			Status struct {
				Held *struct {
					Target  []string
					Message string
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			return err
		}
		if held := found.Status.Held; held == nil || len(held.Target) != 1 || held.Target[0] != commit {
			return errors.New("the application is not held")
		}
		message = found.Status.Held.Message
		return nil
	})
	return message, err
}

// promote releases a good revision under traffic, which ends the hold. No
// request may fail.
func (s *scene) promote(ctx context.Context) (string, error) {
	began := time.Now()
	load, err := s.loadFor(ctx, "welcome", 2*time.Second, func() error {
		commit, err := s.release(goodRevision, "", 50, 200)
		if err != nil {
			return err
		}
		return s.awaitApplication(ctx, commit)
	})
	if err != nil {
		return "", err
	}
	if load.Failures > 0 {
		return "", fmt.Errorf("%d of %d requests failed: %v", load.Failures, load.Requests, load.Errors)
	}
	span, served := load.Revisions[goodRevision]
	if !served {
		return "", fmt.Errorf("the good revision served none of %d requests", load.Requests)
	}
	return fmt.Sprintf("after %.1f s; 0 of %d requests failed since its first response", time.Since(began).Seconds(), span.Requests), nil
}
