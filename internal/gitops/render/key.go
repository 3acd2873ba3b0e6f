package render

func requestKey(*Request) string { return "" }
