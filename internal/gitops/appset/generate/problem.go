package generate

import (
	"errors"
	"fmt"
)

var errNothing = errors.New("it has no generator that is known: use list, clusters, git, scmProvider, pullRequest, plugin, clusterDecisionResource, matrix or merge")

// problem is an error with its place in the ApplicationSet.
type problem struct {
	place string
	err   error
}

// Error has the place first, as a path that a user can find in the manifest.
func (p *problem) Error() string { return p.place + ": " + p.err.Error() }

// Unwrap keeps limits and cancellations visible to errors.Is.
func (p *problem) Unwrap() error { return p.err }

// located adds the place, unless the error has a more exact one.
func located(place string, err error) error {
	var inner *problem
	if err == nil || errors.As(err, &inner) {
		return err
	}
	return &problem{place: place, err: err}
}

// at is located for an element of a list.
func at(name string, index int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s[%d]: %w", name, index, err)
}
