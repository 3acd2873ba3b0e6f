// Package platformv1connect is the clients and handlers of the platform's API, generated from
// proto/slipway/platform/v1.
package platformv1connect
