// Package strategy chooses the tag that an image is updated to. It is pure: tags
// and dates come from the caller.
//
// It refuses names, constraints and patterns that it cannot read. A filter that is
// refused matches no tag, so that a mistake updates nothing.
package strategy
