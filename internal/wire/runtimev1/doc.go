// Package runtimev1 is the messages of a runtime's API, generated from proto/slipway/runtime/v1.
package runtimev1
