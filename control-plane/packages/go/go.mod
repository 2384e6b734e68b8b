module stele.example/steletest

go 1.21
