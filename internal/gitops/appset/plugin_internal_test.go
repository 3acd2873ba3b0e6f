package appset

import "testing"

func FuzzPlugin(f *testing.F) {
	f.Add([]byte(`{"output": {"parameters": [{"key1": "val1"}]}}`))
	f.Add([]byte(`{"output": {"parameters": {}}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		sets, err := parsePlugin(content)
		if err != nil && sets != nil {
			t.Errorf("%q gives %v and %v", content, sets, err)
		}
	})
}
