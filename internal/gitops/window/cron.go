package window

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Schedule is a set of minutes, in cron's five fields: minute, hour, day of the
// month, month, day of the week. Each is a list of *, numbers, ranges and steps
// (5, 1-5, */10, 10-50/20, 7/20, which counts to the end). Months and days have
// names, and 7 is Sunday too. If both kinds of day are restricted, either is
// enough. @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly
// stand for what their names mean.
type Schedule struct {
	minutes, hours, days, months, weekdays uint64
	// anyDay and anyWeekday are set for a *.
	anyDay, anyWeekday bool
}

// field is one of the five fields: its range and names.
type field struct {
	name     string
	min, max int
	names    string // three letters each, the first for min
}

// errNever is the error of a schedule without a date, such as the 30th of
// February.
var errNever = errors.New("no date fits it")

// maxSchedule bounds the text that is parsed.
const maxSchedule = 256

// horizon is how far ahead a schedule is searched. A 29th of February is at
// most eight years away, so a schedule without a date in that time never fires.
const horizon = 9 * 366 * 24 * time.Hour

// ParseSchedule reads a schedule.
func ParseSchedule(text string) (Schedule, error) {
	schedule, err := parseFields(text)
	if err != nil {
		return Schedule{}, fmt.Errorf("schedule %.80q: %w", text, err)
	}
	return schedule, nil
}

// parseFields reads the five fields. A schedule that never fires, such as the
// 30th of February, is an error: a window that silently never opens would not
// protect anything.
func parseFields(text string) (Schedule, error) {
	if len(text) > maxSchedule {
		return Schedule{}, fmt.Errorf("it has %d characters, the most is %d", len(text), maxSchedule)
	}
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return Schedule{}, errors.New("the time zone belongs into the field timeZone")
	}
	words := strings.Fields(text)
	if len(words) == 1 && strings.HasPrefix(words[0], "@") {
		long, ok := shorthand(words[0])
		if !ok {
			return Schedule{}, fmt.Errorf("%s is not one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly", words[0])
		}
		words = strings.Fields(long)
	}
	if len(words) != 5 {
		return Schedule{}, fmt.Errorf("it has %d fields, and cron has 5: minute, hour, day, month, weekday", len(words))
	}
	var schedule Schedule
	for i, into := range []struct {
		field
		set *uint64
	}{
		{field{name: "minute", max: 59}, &schedule.minutes},
		{field{name: "hour", max: 23}, &schedule.hours},
		{field{name: "day of the month", min: 1, max: 31}, &schedule.days},
		{field{name: "month", min: 1, max: 12, names: "janfebmaraprmayjunjulaugsepoctnovdec"}, &schedule.months},
		{field{name: "day of the week", max: 7, names: "sunmontuewedthufrisat"}, &schedule.weekdays},
	} {
		set, err := into.list(words[i])
		if err != nil {
			return Schedule{}, fmt.Errorf("%s: %w", into.name, err)
		}
		*into.set = set
	}
	schedule.weekdays = (schedule.weekdays | schedule.weekdays>>7) & 0x7f
	schedule.anyDay = hasStar(words[2])
	schedule.anyWeekday = hasStar(words[4])
	if _, ok := schedule.nextOnClock(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)); !ok {
		return Schedule{}, errNever
	}
	return schedule, nil
}

// shorthand expands @daily and its like, as crontab(5) has them.
func shorthand(word string) (string, bool) {
	switch word {
	case "@yearly", "@annually":
		return "0 0 1 1 *", true
	case "@monthly":
		return "0 0 1 * *", true
	case "@weekly":
		return "0 0 * * 0", true
	case "@daily", "@midnight":
		return "0 0 * * *", true
	case "@hourly":
		return "0 * * * *", true
	}
	return "", false
}

// hasStar reports whether a field of days leaves the choice to the other one.
func hasStar(text string) bool {
	for item := range strings.SplitSeq(text, ",") {
		if item == "*" || item == "?" || item == "*/1" || item == "?/1" {
			return true
		}
	}
	return false
}

// list reads a field to a set of bits.
func (f field) list(text string) (uint64, error) {
	var set uint64
	for item := range strings.SplitSeq(text, ",") {
		more, err := f.item(item)
		if err != nil {
			return 0, err
		}
		set |= more
	}
	return set, nil
}

// item reads *, 5, 1-5, each perhaps with a step.
func (f field) item(text string) (uint64, error) {
	span, stepText, stepped := strings.Cut(text, "/")
	step := 1
	if stepped {
		var err error
		if step, err = number(stepText); err != nil || step == 0 {
			return 0, fmt.Errorf("%q is not a step", stepText)
		}
	}
	first, last := f.min, f.max
	if span != "*" && span != "?" {
		low, high, ranged := strings.Cut(span, "-")
		var err error
		if first, err = f.value(low); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if last, err = f.value(high); err != nil {
				return 0, err
			}
		case !stepped:
			last = first
		}
		if first > last {
			return 0, fmt.Errorf("%q ends before it begins", span)
		}
	} else if f.max == 7 {
		last = 6 // Sunday is counted once
	}
	var set uint64
	for value := first; value <= last; value += step {
		set |= 1 << value
	}
	return set, nil
}

// value reads a number or a name of the field.
func (f field) value(text string) (int, error) {
	for i := 0; i+3 <= len(f.names); i += 3 {
		if strings.EqualFold(f.names[i:i+3], text) {
			return f.min + i/3, nil
		}
	}
	value, err := number(text)
	if err != nil || value < f.min || value > f.max {
		return 0, fmt.Errorf("%q is not from %d to %d", text, f.min, f.max)
	}
	return value, nil
}

// number reads digits, without a sign.
func number(text string) (int, error) {
	if text == "" || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// Next is the first time after an instant, in a time zone. The second result is
// false if there is none for years.
func (s Schedule) Next(after time.Time, zone *time.Location) (time.Time, bool) {
	from := after.Truncate(time.Minute).Add(time.Minute)
	// A zone's clock runs evenly between two changes of its offset, so that each
	// stretch can be searched as if there was no time zone.
	for limit := after.Add(horizon); from.Before(limit); {
		local := from.In(zone)
		_, offset := local.Zone()
		shift := time.Duration(offset) * time.Second
		start, end := local.ZoneBounds()
		if start.After(after) && s.jumpedOver(start, shift) {
			return start.In(zone), true
		}
		found, ok := s.nextOnClock(from.UTC().Add(shift))
		if !ok {
			return time.Time{}, false
		}
		if at := found.Add(-shift); end.IsZero() || at.Before(end) {
			return at.In(zone), at.Before(limit)
		}
		from = end
	}
	return time.Time{}, false
}

// jumpedOver reports whether the clock jumped over a time when its offset became
// what it is. Such a time is met when the clock jumps.
func (s Schedule) jumpedOver(at time.Time, shift time.Duration) bool {
	_, offsetBefore := at.Add(-time.Nanosecond).Zone()
	before := time.Duration(offsetBefore) * time.Second
	if before >= shift {
		return false
	}
	found, ok := s.nextOnClock(at.UTC().Add(before))
	return ok && found.Before(at.UTC().Add(shift))
}

// nextOnClock is the first minute, not before the given one, on a clock that is
// never changed.
func (s Schedule) nextOnClock(from time.Time) (time.Time, bool) {
	at := from.Truncate(time.Minute)
	if at.Before(from) {
		at = at.Add(time.Minute)
	}
	for limit := from.Add(horizon); at.Before(limit); {
		year, month, day := at.Date()
		switch {
		case s.months&(1<<month) == 0:
			at = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
			continue
		case !s.onDay(at):
			at = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
			continue
		}
		hour, ok := following(s.hours, at.Hour())
		if !ok {
			at = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
			continue
		}
		if hour != at.Hour() {
			at = time.Date(year, month, day, hour, 0, 0, 0, time.UTC)
		}
		if minute, ok := following(s.minutes, at.Minute()); ok {
			return time.Date(year, month, day, hour, minute, 0, 0, time.UTC), true
		}
		at = time.Date(year, month, day, hour+1, 0, 0, 0, time.UTC)
	}
	return time.Time{}, false
}

// onDay reports whether a day matches. If both day fields are restricted,
// either is enough, as in crontab(5).
func (s Schedule) onDay(at time.Time) bool {
	day := s.days&(1<<at.Day()) != 0
	weekday := s.weekdays&(1<<at.Weekday()) != 0
	if s.anyDay || s.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

// following is the smallest member of a set that is not smaller than a value.
func following(set uint64, value int) (int, bool) {
	rest := set >> value
	if rest == 0 {
		return 0, false
	}
	return value + bits.TrailingZeros64(rest), true
}
