package sharedrepo

import (
	"slipway.dev/slipway/internal/wire"
)

// Location is where a Shared Configuration Repository is: the repository, a
// folder in it, and a branch, which is the default one when it is empty.
type Location = wire.SharedRepository

// Parse reads <repo>.git[/<path>][?ref=<branch>] (R57).
func Parse(text string) (Location, error) { return wire.ParseSharedRepository(text) }
