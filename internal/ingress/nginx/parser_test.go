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

// TestSharedPolicies: Ingresses share their policies, unless one of these counts requests or
// names another object.
func TestSharedPolicies(t *testing.T) {
	for _, c := range []struct {
		annotations map[string]string
		shared      bool
	}{
		{nil, true},
		{map[string]string{"proxy-body-size": "8m", "whitelist-source-range": "10.0.0.0/8"}, true},
		{map[string]string{"limit-rps": "5"}, false},
		{map[string]string{"limit-connections": "5"}, false},
		{map[string]string{"auth-type": "basic", "auth-secret": "users"}, false},
	} {
		given := map[string]string{}
		for name, value := range c.annotations {
			given[nginx.Prefix+name] = value
		}
		parsed := new(nginx.Parser).Parse(given, nil)
		if (parsed.Policies != nil) != c.shared || c.shared && len(parsed.Policies) != len(parsed.Before)+len(parsed.After) {
			t.Errorf("%v: %d policies are shared, of %d", c.annotations, len(parsed.Policies), len(parsed.Before)+len(parsed.After))
		}
	}
}
