package controller

import (
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/accesslog"
	"slipway.dev/slipway/internal/edge/tracing"
	"slipway.dev/slipway/internal/ingress"
	"slipway.dev/slipway/internal/ingress/acme"
	"slipway.dev/slipway/internal/ingress/status"
	"slipway.dev/slipway/internal/observe"
)

// DeclareMetrics registers every metric that an edge can have, for
// [observe.Declare]. The parts that they read do not exist.
func DeclareMetrics(metrics *observe.Metrics) {
	registerer := metrics.For("edge")
	edge.DeclareMetrics(registerer)
	(*accesslog.Log)(nil).Register(registerer)
	(*tracing.Tracer)(nil).Register(registerer)
	ingress.NewMetrics(metrics.For("ingress"), nil)
	status.NewMetrics(metrics.For("ingress"))
	acme.NewMetrics(metrics.For("acme"))
}
