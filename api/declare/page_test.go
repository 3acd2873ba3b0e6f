package declare

import "testing"

func TestPage(t *testing.T) {
	var page Page
	page.Printf("# %s\n\n", "Title")
	page.Table("Name", "Text")
	page.Row(Code("a<b|c"), "one | two\nand <three> `<four>`")
	page.Row(Code(""), "")
	want := "# Title\n\n| Name | Text |\n|---|---|\n| `a<b\\|c` | one \\| two and &lt;three> `<four>` |\n|  |  |\n"
	if got := page.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
