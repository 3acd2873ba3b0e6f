package source

import (
	"cmp"
	"log/slog"
	"time"

	"slipway.dev/slipway/internal/gitops/source/objects"
)

// withDefaults fills in what is not set. The receiver is a copy, so that the
// Options of the caller stay as they are.
func (o Options) withDefaults() Options {
	if o.MaxAge <= 0 {
		o.MaxAge = 2 * time.Minute
	}
	if o.FetchTimeout <= 0 {
		o.FetchTimeout = 2 * time.Minute
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Observe == nil {
		o.Observe = func(Fetch) {}
	}
	if o.Evicted == nil {
		o.Evicted = func(string, int64) {}
	}
	if o.Credentials == nil {
		o.Credentials = noCredentials{}
	}
	if o.Indexes == nil {
		o.Indexes = ownIndexes{}
	}
	o.Limits = o.Limits.withDefaults()
	return o
}

// withDefaults fills in zero and negative limits: no limit can be turned off.
func (l Limits) withDefaults() Limits {
	for _, limit := range []struct {
		value    *int64
		standard int64
	}{
		{&l.FetchBytes, 2 << 30}, {&l.FileBytes, 1 << 30}, {&l.ChartBytes, 32 << 20},
		{&l.IndexBytes, 128 << 20}, {&l.ProjectBytes, 4 << 30}, {&l.DiskBytes, 7 << 30},
	} {
		if *limit.value <= 0 {
			*limit.value = limit.standard
		}
	}
	if l.Refs <= 0 {
		l.Refs = 250_000
	}
	if l.Parallel <= 0 {
		l.Parallel = 8
	}
	return l
}

// objects is the limits of a pack. Memory and the number of objects are not
// configurable: they protect the process and not the disk.
func (l Limits) objects() objects.Limits {
	limits := objects.DefaultLimits()
	limits.Bytes, limits.ObjectBytes = l.FetchBytes, l.FileBytes
	return limits
}
