package expand

import (
	"context"
	"fmt"
	"reflect"
	"time"
)

// The limits of one text.
const (
	maxText   = 256 << 10 // bytes of a template
	maxOutput = 1 << 20   // bytes of what it becomes
	maxWork   = 32 << 20  // steps, and units of values that functions get and give
	maxValue  = 2 << 20   // units of one value: bytes of texts, and 16 for each other part
	maxNested = 64        // how deep values are in values
	maxCalls  = 1000      // how deep templates call each other
	maxTime   = 5 * time.Second
)

// limitError is the error of an exceeded limit.
type limitError string

// Error is the limit and what to do about it; explain adds the template.
func (t limitError) Error() string { return string(t) }

// budget is the remaining work of the text that is being expanded.
type budget struct {
	// ctx and until end a text that takes too long.
	ctx   context.Context
	work  int
	until time.Time
	// requested counts the calls of spend. The clock is read with every 64th only,
	// as most calls are short.
	requested int
	// calls is how deep the running template is in calls of others.
	calls int
}

// refill starts a text.
func (b *budget) refill(ctx context.Context) {
	b.ctx, b.work, b.until, b.requested, b.calls = ctx, maxWork, time.Now().Add(maxTime), 0, 0
}

// spend counts work. It panics when the limit is exceeded: that is how a
// function of a template fails, also one without an error result.
func (b *budget) spend(units int) {
	b.work -= units
	if b.work < 0 {
		panic(limitError("the template does too much: loop over less"))
	}
	// The clock is read now and then: most calls are short.
	if b.requested++; b.requested%64 == 1 {
		b.checkTime()
	}
}

// checkTime ends a text that takes too long.
func (b *budget) checkTime() {
	if b.ctx.Err() != nil || time.Now().After(b.until) {
		panic(limitError("there was no time left for the template"))
	}
}

// tick counts one iteration of a loop. The empty string adds nothing to the
// output of the loop.
func (b *budget) tick() string {
	// One iteration costs as much as a small function call.
	b.spend(64)
	return ""
}

// enter begins a template, which another one may have called. It costs as much as
// an iteration of a loop.
func (b *budget) enter() string {
	if b.calls++; b.calls > maxCalls {
		panic(limitError(fmt.Sprintf("templates call each other more than %d deep: end the recursion earlier", maxCalls)))
	}
	return b.tick()
}

// leave ends a template.
func (b *budget) leave() string {
	b.calls--
	return ""
}

// charge counts the arguments or results of a function.
func (b *budget) charge(values []reflect.Value) {
	// The call itself costs something too, so that many empty calls count.
	units := 16
	for _, value := range values {
		units += sizeOf(value, maxValue-units, 0)
		if units > maxValue {
			panic(limitError(fmt.Sprintf("a function has values of more than %d KiB", maxValue>>10)))
		}
	}
	b.spend(units)
}

// sizeOf counts the units of a value, and stops at a limit. A value that occurs
// several times counts each time, as it would be written each time. The
// function set can even put a dictionary into itself; maxNested ends that.
func sizeOf(value reflect.Value, limit, depth int) int {
	// part is the cost of any value beside its text.
	const part = 16
	if depth > maxNested {
		panic(limitError(fmt.Sprintf("values are in values, more than %d deep", maxNested)))
	}
	switch value.Kind() {
	case reflect.String:
		return part + value.Len()
	case reflect.Interface, reflect.Pointer:
		if value.IsNil() {
			return part
		}
		return sizeOf(value.Elem(), limit, depth+1)
	case reflect.Slice, reflect.Array:
		units := part
		// Bytes are counted by length and not one by one.
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return part + value.Len()
		}
		for i := range value.Len() {
			if units += sizeOf(value.Index(i), limit-units, depth+1); units > limit {
				break
			}
		}
		return units
	case reflect.Map:
		units := part
		for entries := value.MapRange(); entries.Next(); {
			units += sizeOf(entries.Key(), limit-units, depth+1)
			if units += sizeOf(entries.Value(), limit-units, depth+1); units > limit {
				break
			}
		}
		return units
	}
	return part
}

// output is the result of a template.
type output struct {
	text []byte
}

// Write fails when the result would be too long.
func (o *output) Write(more []byte) (int, error) {
	if len(o.text)+len(more) > maxOutput {
		return 0, limitError(fmt.Sprintf("the result has more than %d KiB", maxOutput>>10))
	}
	o.text = append(o.text, more...)
	return len(more), nil
}
