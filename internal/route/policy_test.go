package route

import (
	"reflect"
	"strings"
	"testing"
)

// Every action of a policy has the name of its field in the JSON form, and a policy
// with several has none.
func TestPolicyNames(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[Policy]()
	for i := range fields.NumField() {
		field := fields.Field(i)
		if field.Type.Kind() != reflect.Pointer {
			continue
		}
		var policy Policy
		value := reflect.New(field.Type.Elem())
		reflect.ValueOf(&policy).Elem().Field(i).Set(value)
		want, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name, action := policy.Named(); name != want || action != value.Interface() {
			t.Errorf("%s is %q with %T", field.Name, name, action)
		}
	}
	if name, action := (&Policy{Retry: &Retry{}, Mirror: &Mirror{}}).Named(); name != "" || action != nil {
		t.Errorf("a policy with two actions is %q with %T", name, action)
	}
}

// TestBreakerNeedsTimes: a circuit breaker without a window, or without a time to stay open, is no breaker.
func TestBreakerNeedsTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		breaker CircuitBreaker
		want    int
	}{
		{CircuitBreaker{FailurePercent: 50, Window: 1, Open: 1}, 0},
		{CircuitBreaker{FailurePercent: 50, Open: 1}, 1},
		{CircuitBreaker{FailurePercent: 50, Window: 1}, 1},
		{CircuitBreaker{FailurePercent: 50, MinRequests: -1, Window: 1, Open: 1}, 1},
	} {
		found := &report{subject: ID{}}
		if c.breaker.check(found); len(found.problems) != c.want {
			t.Errorf("%+v has the problems %v", c.breaker, found.problems)
		}
	}
}
