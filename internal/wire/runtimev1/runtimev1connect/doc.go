// Package runtimev1connect is the clients and handlers of a runtime's API, generated from
// proto/slipway/runtime/v1.
package runtimev1connect
