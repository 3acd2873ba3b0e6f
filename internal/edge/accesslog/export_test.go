package accesslog

import "slipway.dev/slipway/internal/edge/proxy"

// LineOf is the line of a record, without the way through the queue.
func LineOf(options Options, r *proxy.Record) (string, error) {
	layout, err := newLayout(options)
	if err != nil {
		return "", err
	}
	return string(layout.appendLine(nil, r, 1)), nil
}
