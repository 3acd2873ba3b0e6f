// Package platformv1 is the messages of the platform's API, generated from proto/slipway/platform/v1.
package platformv1
