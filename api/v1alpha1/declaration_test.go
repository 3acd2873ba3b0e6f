package v1alpha1

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"slipway.dev/slipway/api/declare"
)

// eachStruct visits every struct that is declared, from the kinds and from what
// annotations of Services have.
func eachStruct(visit func(reflect.Type)) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		if _, scalar := reflect.New(of).Interface().(declare.Scalar); scalar {
			return
		}
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			walk(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			visit(of)
			for i := range of.NumField() {
				walk(of.Field(i).Type)
			}
		}
	}
	for _, kind := range Kinds() {
		walk(kind.Spec)
	}
	walk(reflect.TypeFor[StickyCookie]())
	walk(reflect.TypeFor[HealthCheck]())
}

// TestDeclarations: every field has a description, and its tags are valid.
func TestDeclarations(t *testing.T) {
	count := 0
	eachStruct(func(of reflect.Type) {
		count++
		for _, field := range declare.Fields(of) {
			name := of.Name() + "." + field.Name
			if !strings.HasSuffix(field.Description, ".") || strings.Contains(field.Description, "`") {
				t.Errorf("%s has no description that is a sentence", name)
			}
			if _, err := regexp.Compile(field.Pattern); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			tag := field.Tag.Get("json")
			if omits := strings.HasSuffix(tag, ",omitempty"); omits == field.Required {
				t.Errorf("%s: a field is required or left out when it is empty", name)
			}
			if field.Required && field.Default != "" {
				t.Errorf("%s is required and has a default", name)
			}
		}
	})
	if count < 30 {
		t.Errorf("only %d structs were looked at", count)
	}
}

// TestDefaults: a default is a value that the field takes.
func TestDefaults(t *testing.T) {
	eachStruct(func(of reflect.Type) {
		for _, field := range declare.Fields(of) {
			if field.Default == "" {
				continue
			}
			problems := declare.Decode(map[string]any{}, reflect.New(of).Interface())
			for _, problem := range problems {
				if problem.Field == field.Name {
					t.Errorf("%s.%s: %s", of.Name(), field.Name, problem.Message)
				}
			}
		}
	})
}

func TestScalars(t *testing.T) {
	for _, test := range []struct {
		target declare.Scalar
		text   string
		want   any // nil is refused
	}{
		{new(Duration), "1m30s", Duration(90e9)},
		{new(Duration), "10", nil},
		{new(Duration), "-1s", nil},
		{new(Size), "512", Size(512)},
		{new(Size), "10Mi", Size(10 << 20)},
		{new(Size), "1k", Size(1000)},
		{new(Size), "2Ti", Size(2 << 40)},
		{new(Size), "1K", nil},
		{new(Size), "1kk", nil},
		{new(Size), "+1", nil},
		{new(Size), "-1", nil},
		{new(Size), "", nil},
		{new(Size), "9223372036854775807Mi", nil},
		{new(StatusRange), "404", StatusRange{404, 404}},
		{new(StatusRange), "500-599", StatusRange{500, 599}},
		{new(StatusRange), "599-500", nil},
		{new(StatusRange), "99", nil},
		{new(StatusRange), "500-", nil},
		{new(ServicePort), "80", ServicePort{Number: 80}},
		{new(ServicePort), "http", ServicePort{Name: "http"}},
		{new(ServicePort), "0", nil},
		{new(ServicePort), "70000", nil},
		{new(ServicePort), "99999999999999999999", nil},
		{new(ServicePort), "Http", nil},
		{new(ServicePort), "", nil},
		{new(AddressRange), "nowhere", nil},
		{new(AddressRange), "fe80::1%eth0", nil},
		{new(AddressRange), "10.0.0.0/33", nil},
		{new(AddressRange), "::ffff:10.0.0.0/104", nil},
	} {
		err := test.target.UnmarshalText([]byte(test.text))
		got := reflect.ValueOf(test.target).Elem().Interface()
		if (err == nil) != (test.want != nil) || test.want != nil && got != test.want {
			t.Errorf("%T %q: %v, %v; want %v", test.target, test.text, got, err, test.want)
		}
	}
	for text, want := range map[string]string{
		"10.1.2.3/8": "10.0.0.0/8", "10.0.0.1": "10.0.0.1/32", "2001:db8::1": "2001:db8::1/128", "::ffff:10.0.0.1": "10.0.0.1/32",
	} {
		var got AddressRange
		if err := got.UnmarshalText([]byte(text)); err != nil || got.String() != want {
			t.Errorf("%s: %s %v", text, got, err)
		}
	}
}

func TestShortForms(t *testing.T) {
	for _, test := range []struct {
		into declare.Shortened
		text string
		want any // nil is refused
	}{
		{&RateLimit{}, "100/1s", RateLimit{Requests: 100, Period: 1e9}},
		{&RateLimit{}, "5/m", RateLimit{Requests: 5, Period: 60e9}},
		{&RateLimit{}, "5 / 100ms", RateLimit{Requests: 5, Period: 1e8}},
		{&RateLimit{}, "100", nil},
		{&RateLimit{}, "0/1s", nil},
		{&RateLimit{}, "1/0s", nil},
		{&RateLimit{}, "1/", nil},
		{&Compression{}, "true", Compression{}},
		{&Compression{}, "gzip, zstd", Compression{Encodings: []string{"gzip", "zstd"}}},
		{&Compression{}, "lzma", nil},
		{&Compression{}, ",", nil},
		{&RequestKey{}, "client", RequestKey{By: "client"}},
		{&RequestKey{}, "header: X-User", RequestKey{By: "header", Name: "X-User"}},
		{&RequestKey{}, "header", nil},
		{&RequestKey{}, "client:x", nil},
		{&RequestKey{}, "moon", nil},
		{&StickyCookie{}, "true", StickyCookie{Path: "/"}},
		{&StickyCookie{}, "stay", StickyCookie{Name: "stay", Path: "/"}},
	} {
		problems := declare.DecodeShort(test.text, "", test.into)
		got := reflect.ValueOf(test.into).Elem().Interface()
		if (problems == nil) != (test.want != nil) || test.want != nil && !reflect.DeepEqual(got, test.want) {
			t.Errorf("%T %q: %+v, %v; want %+v", test.into, test.text, got, problems, test.want)
		}
	}
}

func TestFilterName(t *testing.T) {
	for name, filter := range map[string]Filter{
		"": {}, "cors": {CORS: &CORS{}}, "chain": {Chain: &Chain{}},
	} {
		if got := filter.Name(); got != name {
			t.Errorf("%q, want %q", got, name)
		}
	}
	both := Filter{CORS: &CORS{}, Chain: &Chain{}}
	if both.Name() != "" {
		t.Error("two filters have the name of one")
	}
}

// FuzzScalars: what is accepted fits the pattern that the schema has, so that
// the API server and the edge agree.
func FuzzScalars(f *testing.F) {
	for _, text := range []string{"1m30s", "10Mi", "500-599", "10.0.0.0/8", "http", "80", "1h1.5s", "0", "1us"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, scalar := range []declare.Scalar{new(Size), new(StatusRange), new(AddressRange), new(Duration)} {
			if scalar.UnmarshalText([]byte(text)) == nil && !regexp.MustCompile(scalar.Form().Pattern).MatchString(text) {
				t.Errorf("%T takes %q, which does not have the form", scalar, text)
			}
		}
		var port ServicePort
		if port.UnmarshalText([]byte(text)) == nil && (port.Number < 1) == (port.Name == "") {
			t.Errorf("%q is the port %+v", text, port)
		}
		var rate RateLimit
		if rate.UnmarshalShort(text) == nil && (rate.Requests < 1 || rate.Period <= 0) {
			t.Errorf("%q is the rate %+v", text, rate)
		}
	})
}
