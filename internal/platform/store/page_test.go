package store

import (
	"slices"
	"testing"
)

func FuzzPageToken(f *testing.F) {
	list := newListID("things", "account", ApplicationFilter{})
	f.Add(list.token("a", "b", "c"))
	f.Add(list.token("a"))
	f.Add(newListID("others").token("a", "b", "c"))
	f.Add("e30")
	f.Fuzz(func(t *testing.T, token string) {
		after, err := list.after(token, 3)
		if err != nil || token == "" {
			if after != nil {
				t.Fatalf("%q gives %q and %v", token, after, err)
			}
			return
		}
		if len(after) != 3 {
			t.Fatalf("%q gives %q", token, after)
		}
		again, err := list.after(list.token(after...), 3)
		if err != nil || !slices.Equal(again, after) {
			t.Fatalf("%q gives %q and then %q, %v", token, after, again, err)
		}
	})
}
