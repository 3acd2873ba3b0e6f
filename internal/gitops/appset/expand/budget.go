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
	maxTime   = 5 * time.Second
)

// tooMuch is the error of a limit.
type tooMuch string

func (t tooMuch) Error() string { return string(t) }

// budget is what the text that is being expanded may still do.
type budget struct {
	ctx   context.Context
	work  int
	until time.Time
	asked int // how often it was asked
}

// refill begins a text.
func (b *budget) refill(ctx context.Context) {
	b.ctx, b.work, b.until, b.asked = ctx, maxWork, time.Now().Add(maxTime), 0
}

// spend counts work. It panics when there is too much: that is how a function of
// a template fails, whatever its results are.
func (b *budget) spend(units int) {
	b.work -= units
	if b.work < 0 {
		panic(tooMuch("the template does too much: loop over less"))
	}
	// The clock is looked at now and then: most calls are short.
	if b.asked++; b.asked%64 == 1 && (b.ctx.Err() != nil || time.Now().After(b.until)) {
		panic(tooMuch("there was no time left for the template"))
	}
}

// tick counts one turn of a loop.
func (b *budget) tick() string {
	b.spend(64)
	return ""
}

// charge counts values that a function gets or gives.
func (b *budget) charge(values []reflect.Value) {
	units := 16
	for _, value := range values {
		units += sizeOf(value, maxValue-units, 0)
		if units > maxValue {
			panic(tooMuch(fmt.Sprintf("a function has values of more than %d KiB", maxValue>>10)))
		}
	}
	b.spend(units)
}

// sizeOf counts the units of a value, and stops when they are more than a limit.
// What is in several places counts in each: that is how often it would be
// written.
func sizeOf(value reflect.Value, limit, depth int) int {
	const part = 16
	if depth > maxNested {
		panic(tooMuch(fmt.Sprintf("values are in values, more than %d deep", maxNested)))
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

// output is where a template writes to.
type output struct {
	text []byte
}

// Write fails when the text would be too long.
func (o *output) Write(more []byte) (int, error) {
	if len(o.text)+len(more) > maxOutput {
		return 0, tooMuch(fmt.Sprintf("the result has more than %d KiB", maxOutput>>10))
	}
	o.text = append(o.text, more...)
	return len(more), nil
}
