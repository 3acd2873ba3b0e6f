package server

import (
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/fleet"
	"slipway.dev/slipway/internal/platform/gateway"
	"slipway.dev/slipway/internal/platform/history"
	"slipway.dev/slipway/internal/platform/hub"
)

// DeclareMetrics registers every metric that a platform can have, for
// [observe.Declare].
func DeclareMetrics(metrics *observe.Metrics) {
	hub.NewMetrics(metrics.For("hub"))
	fleet.NewMetrics(metrics.For("fleet"))
	gateway.NewMetrics(metrics.For("gateway"))
	history.NewMetrics(metrics.For("history"))
	registerExport(metrics, nil)
}
