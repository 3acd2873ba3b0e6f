package engine

import (
	"iter"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// Wants returns the Secrets and objects of custom kinds that units have read.
func (e *Engine) Wants() iter.Seq[snapshot.Ref] {
	return func(yield func(snapshot.Ref) bool) {
		for ref := range e.readers.all() {
			if wanted(ref) && !yield(ref) {
				return
			}
		}
	}
}
