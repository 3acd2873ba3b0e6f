package route

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"time"
)

// filler makes values of any type in the table by reflection, so that a field
// that is added later is tested too.
type filler struct {
	random *rand.Rand
	// strings are what text is made of.
	strings []string
	depth   int
}

// hostile are texts that injured others: separators, quotes, other alphabets,
// and what other people's rule languages use.
var hostile = []string{
	"", "a", "a-b", "a/b", "a.b", "*", "*.x", "A", "..", "/", "//", "/a", "/a/", "/../a", "%2f", "%", "\x00", "\n", "\r\nX: y",
	"\"", "\\", "`", "') || Host(`", "{{", "${x}", "<script>", "[redacted]", "\xff", "\u2028", "ü", "null", "true", "0", "-1",
	"exact", "prefix", "regexp", "characterPrefix", "present", "http", "https", "GET", "X-Header", "tls", "plain", "terminate",
	"roundRobin", "hash", "client", "header", "(", "^/a", "(.{1000}){1000}", "10.0.0.1", "::1", "example.com", "gzip", "lax",
	"h2", "alpn", "grpc", "tcp",
}

// table makes a table with everything in it, sensible or not.
func (f *filler) table() *Table {
	table := new(Table)
	f.fill(reflect.ValueOf(table).Elem())
	return table
}

func (f *filler) fill(v reflect.Value) {
	f.depth++
	defer func() { f.depth-- }()
	switch target := v.Addr().Interface().(type) {
	case *Secret:
		*target = NewSecret(f.text())
		return
	case *time.Time:
		*target = time.Unix(f.random.Int64N(4e9), f.random.Int64N(1e9)).UTC()
		return
	case *netip.AddrPort:
		*target = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(f.random.IntN(4))}), uint16(f.random.IntN(3)))
		return
	case *netip.Prefix:
		*target = netip.PrefixFrom(netip.AddrFrom4([4]byte{10}), f.random.IntN(34)-1)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Pointer:
		// A policy has one action, mostly.
		if v.Type().Elem() != reflect.TypeFor[Rule]() && f.random.IntN(24) > 2 && f.depth > 4 || f.depth > 14 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		if f.depth > 14 {
			return
		}
		for range f.random.IntN(3) {
			element := reflect.New(v.Type().Elem()).Elem()
			if element.Kind() == reflect.Pointer {
				element.Set(reflect.New(element.Type().Elem()))
				f.fill(element.Elem())
			} else {
				f.fill(element)
			}
			v.Set(reflect.Append(v, element))
		}
	default:
		f.scalar(v)
	}
}

func (f *filler) scalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.random.IntN(2) == 0)
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(uint64(f.random.IntN(3)))
	default:
		v.SetInt(int64(f.random.IntN(5)) - 1)
	}
}

func (f *filler) text() string { return f.strings[f.random.IntN(len(f.strings))] }
