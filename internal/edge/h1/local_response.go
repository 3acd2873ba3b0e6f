package h1

// AppendEdits appends the lines that edits bring, for an answer of the edge's
// own, which has no lines that they could replace.
func AppendEdits(dst []byte, edits []Edit) []byte { return appendEdits(dst, edits) }
