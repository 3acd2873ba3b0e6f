package window_test

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/window"
	"slipway.dev/slipway/internal/must"
)

// clock is how instants are written in tables: with the offset, so that a
// change of the clock is seen.
const clock = "Mon 2006-01-02 15:04 -0700"

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	return must.Get(time.Parse(clock, text))(t)
}

func TestNext(t *testing.T) {
	for _, test := range []struct{ schedule, zone, after, want string }{
		{"* * * * *", "UTC", "Sun 2026-11-15 10:00 +0000", "Sun 2026-11-15 10:01 +0000"},
		{"0 22 * * *", "UTC", "Sun 2026-11-15 22:00 +0000", "Mon 2026-11-16 22:00 +0000"},
		{"*/15 * * * *", "UTC", "Sun 2026-11-15 10:46 +0000", "Sun 2026-11-15 11:00 +0000"},
		{"7/20 * * * *", "UTC", "Sun 2026-11-15 10:27 +0000", "Sun 2026-11-15 10:47 +0000"},
		{"10-50/20 * * * *", "UTC", "Sun 2026-11-15 10:30 +0000", "Sun 2026-11-15 10:50 +0000"},
		{"5,35 8-9 * * *", "UTC", "Sun 2026-11-15 08:35 +0000", "Sun 2026-11-15 09:05 +0000"},
		{"0 9 * * MON-FRI", "UTC", "Fri 2026-11-13 09:00 +0000", "Mon 2026-11-16 09:00 +0000"},
		{"0 9 * * 7", "UTC", "Fri 2026-11-13 09:00 +0000", "Sun 2026-11-15 09:00 +0000"},
		{"0 9 * * fri-7", "UTC", "Sat 2026-11-14 09:00 +0000", "Sun 2026-11-15 09:00 +0000"},
		{"0 0 29 feb *", "UTC", "Fri 2026-11-13 09:00 +0000", "Tue 2028-02-29 00:00 +0000"},
		{"0 0 31 * *", "UTC", "Sun 2026-11-15 10:00 +0000", "Thu 2026-12-31 00:00 +0000"},
		// Both kinds of day are restricted: either is enough.
		{"0 0 13 * 5", "UTC", "Sat 2026-11-14 00:00 +0000", "Fri 2026-11-20 00:00 +0000"},
		{"0 0 13 * 5", "UTC", "Sat 2026-12-12 00:00 +0000", "Sun 2026-12-13 00:00 +0000"},
		// A star leaves it to the other one, a step does not.
		{"0 0 * * 5", "UTC", "Sat 2026-11-14 00:00 +0000", "Fri 2026-11-20 00:00 +0000"},
		{"0 0 */2 * 5", "UTC", "Sat 2026-11-14 00:00 +0000", "Sun 2026-11-15 00:00 +0000"},
		{"@hourly", "UTC", "Sun 2026-11-15 10:00 +0000", "Sun 2026-11-15 11:00 +0000"},
		{"@daily", "UTC", "Sun 2026-11-15 10:00 +0000", "Mon 2026-11-16 00:00 +0000"},
		{"@monthly", "UTC", "Sun 2026-11-15 10:00 +0000", "Tue 2026-12-01 00:00 +0000"},
		{"0005 * * * *", "UTC", "Sun 2026-11-15 10:00 +0000", "Sun 2026-11-15 10:05 +0000"},
		{"5 10 * * *" + strings.Repeat(" ", 246), "UTC", "Sun 2026-11-15 10:00 +0000", "Sun 2026-11-15 10:05 +0000"},
		{"@weekly", "UTC", "Sun 2026-11-15 10:00 +0000", "Sun 2026-11-22 00:00 +0000"},
		{"@yearly", "UTC", "Sun 2026-11-15 10:00 +0000", "Fri 2027-01-01 00:00 +0000"},
		{"0 9 * * *", "Europe/Berlin", "Sun 2026-07-05 07:00 +0000", "Mon 2026-07-06 09:00 +0200"},
		{"30 5 * * *", "Asia/Kolkata", "Sun 2026-11-15 00:00 +0000", "Mon 2026-11-16 05:30 +0530"},
		// 2026-03-29 02:00 became 03:00: what was skipped is met at the jump.
		{"30 2 * * *", "Europe/Berlin", "Sat 2026-03-28 20:00 +0100", "Sun 2026-03-29 03:00 +0200"},
		{"0 2 * * 0", "Europe/Berlin", "Sun 2026-03-29 01:59 +0100", "Sun 2026-03-29 03:00 +0200"},
		{"30 2 * * *", "Europe/Berlin", "Sun 2026-03-29 03:00 +0200", "Mon 2026-03-30 02:30 +0200"},
		{"0 3 * * *", "Europe/Berlin", "Sun 2026-03-29 01:00 +0100", "Sun 2026-03-29 03:00 +0200"},
		// 2026-10-25 03:00 became 02:00: what came twice is met twice.
		{"30 2 * * *", "Europe/Berlin", "Sun 2026-10-25 01:00 +0200", "Sun 2026-10-25 02:30 +0200"},
		{"30 2 * * *", "Europe/Berlin", "Sun 2026-10-25 02:30 +0200", "Sun 2026-10-25 02:30 +0100"},
		{"30 2 * * *", "Europe/Berlin", "Sun 2026-10-25 02:30 +0100", "Mon 2026-10-26 02:30 +0100"},
		// Midnight that did not happen, and a day that did not.
		{"0 0 * * *", "America/Sao_Paulo", "Sat 2018-11-03 12:00 -0300", "Sun 2018-11-04 01:00 -0200"},
		{"0 12 30 12 *", "Pacific/Apia", "Thu 2011-12-29 20:00 -1000", "Sat 2011-12-31 00:00 +1400"},
	} {
		schedule, err := window.ParseSchedule(test.schedule)
		if err != nil {
			t.Errorf("%s: %v", test.schedule, err)
			continue
		}
		zone := must.Get(time.LoadLocation(test.zone))(t)
		next, ok := schedule.Next(instant(t, test.after), zone)
		if got := next.Format(clock); !ok || got != test.want {
			t.Errorf("%s in %s after %s is %s, %v, want %s", test.schedule, test.zone, test.after, got, ok, test.want)
		}
	}
}

func TestScheduleRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                        "0 fields",
		"* * * *":                 "4 fields",
		"0 * * * * *":             "6 fields",
		"60 * * * *":              `minute: "60" is not from 0 to 59`,
		"* 24 * * *":              `"24" is not from 0 to 23`,
		"* * 0 * *":               `"0" is not from 1 to 31`,
		"* * * 13 *":              "month",
		"* * * * 8":               "day of the week",
		"* * * * mo":              `"mo"`,
		"5-1 * * * *":             "ends before it begins",
		"*/0 * * * *":             "not a step",
		"*/-1 * * * *":            "not a step",
		"1- * * * *":              `""`,
		", * * * *":               `""`,
		"+1 * * * *":              `"+1"`,
		"00005 * * * *":           `"00005"`,
		"@every 1h":               "2 fields",
		"@never":                  "not one of",
		"TZ=UTC * * * * *":        "timeZone",
		"0 0 30 feb *":            "no date fits it",
		"0 0 31 4,6,9,11 *":       "no date fits it",
		strings.Repeat("*", 1000): "characters",
	} {
		_, err := window.ParseSchedule(text)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.30q: %v, want %q", text, err, says)
		}
	}
}

// Every result is after the given time, on the clock of its zone, and no minute
// between them fits.
func FuzzSchedule(f *testing.F) {
	for _, seed := range []string{"* * * * *", "*/7 1-5 * jan,mar MON", "0 0 29 2 *", "@daily", "30 2 * * *", "59 23 31 12 7"} {
		f.Add(seed, int64(1774746000), uint8(1))
	}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}
	f.Fuzz(func(t *testing.T, text string, seconds int64, zoneAt uint8) {
		schedule, err := window.ParseSchedule(text)
		if err != nil || seconds < 0 || seconds > 4e9 {
			return
		}
		zone := must.Get(time.LoadLocation(zones[int(zoneAt)%len(zones)]))(t)
		after := time.Unix(seconds, 0)
		next, ok := schedule.Next(after, zone)
		if !ok || !next.After(after) {
			t.Fatalf("%q after %v in %v is %v, %v", text, after, zone, next, ok)
		}
		if again, _ := schedule.Next(next.Add(-time.Second), zone); !again.Equal(next) {
			t.Fatalf("%q: asked just before %v, the answer is %v", text, next, again)
		}
		middle := after.Add(next.Sub(after) / 2)
		if between, _ := schedule.Next(middle, zone); !between.Equal(next) {
			t.Fatalf("%q: after %v is %v, but after %v is %v", text, after, next, middle, between)
		}
	})
}
