package nginx_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/route"
)

// TestParser: a Parser returns what Parse does, and one result for all Ingresses with the
// same annotations.
func TestParser(t *testing.T) {
	parser := &nginx.Parser{}
	base := nginx.Defaults()
	base.BodyBytes = 7
	parse := func(annotations map[string]string, base *nginx.Settings) *nginx.Parsed {
		got := parser.Parse(maps.Clone(annotations), base)
		settings, faults, closed := nginx.Parse(annotations, base)
		if !reflect.DeepEqual(got.Settings, settings) || !reflect.DeepEqual(got.Faults, faults) || got.Closed != closed {
			t.Errorf("%v is parsed as %+v", annotations, got)
		}
		if len(got.Before) != len(settings.Before(route.PolicyID{})) || len(got.After) != len(settings.After(route.PolicyID{})) {
			t.Errorf("%v has other policies", annotations)
		}
		return got
	}
	size := map[string]string{nginx.Prefix + "proxy-body-size": "8m", nginx.Prefix + "ssl-redirect": "false"}
	wrong := map[string]string{nginx.Prefix + "proxy-body-size": "false", nginx.Prefix + "ssl-redirect": "8m"}
	if parse(size, nil) != parse(size, nil) || parse(wrong, nil) != parse(wrong, nil) {
		t.Error("equal annotations are parsed twice")
	}
	if parse(size, nil) == parse(wrong, nil) || parse(nil, nil) == parse(nil, base) {
		t.Error("other annotations or defaults share a result")
	}
	long := map[string]string{nginx.Prefix + "app-root": "/" + strings.Repeat("x", 3000)}
	if parse(long, nil) == parse(long, nil) {
		t.Error("long annotations are remembered")
	}
	first := parse(size, nil)
	for i := range 300 {
		parse(map[string]string{nginx.Prefix + "proxy-body-size": fmt.Sprint(i)}, nil)
	}
	if parse(size, nil) == first {
		t.Error("all results are remembered")
	}
}
