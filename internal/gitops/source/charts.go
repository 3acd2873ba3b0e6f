package source

import (
	"context"
	"strings"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

type charts struct{ sources *Sources }

func newCharts(s *Sources) (*charts, error) { return &charts{sources: s}, nil }

func (c *charts) forget(string) {}

func (c *charts) resolve(ctx context.Context, source v1alpha1.ApplicationSource, maxAge time.Duration) (*Resolved, error) {
	return nil, errorf(Invalid, source.RepoURL, "not ready")
}

func isRegistry(url string) bool { return strings.HasPrefix(strings.ToLower(url), "oci://") }
