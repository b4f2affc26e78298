"""The numbers that the paper reports, table by table, as it prints them: mean ± standard deviation."""

from functools import cache

from esan.train.runs.summary import MeanStd

#: Accuracy and ROC-AUC in percent, MAE of ZINC as it is. A row is a method, a column a dataset; "-" was not run.
#: Of CSL the paper has no table: it says that base encoders guess and that all the rest is perfect, sampled or not.
PRINTED: dict[str, str] = {
    "tu": """
data                mutag     ptc        proteins  nci1      nci109    imdb-b    imdb-m
ppgn                90.6±8.7  66.2±6.6   77.2±4.7  83.2±1.1  82.2±1.4  73.0±5.8  50.5±3.6
gin                 89.4±5.6  64.6±7.0   76.2±2.8  82.7±1.7  82.2±1.6  75.1±5.1  52.3±2.8
id-gin              90.4±5.4  67.2±4.3   75.4±2.7  82.6±1.6  82.1±1.5  76.0±2.7  52.7±4.2
dropedge-gin        91.0±5.7  64.5±2.6   73.5±4.5  82.0±2.6  82.2±1.4  76.5±3.3  52.8±2.8
ds-gin-ed           89.9±3.7  66.0±7.2   76.8±4.6  83.3±2.5  83.0±1.7  76.1±2.6  52.9±2.4
ds-gin-nd           89.4±4.8  66.3±7.0   77.1±4.6  83.8±2.4  82.4±1.3  75.4±2.9  52.7±2.0
ds-gin-ego          89.9±6.5  68.6±5.8   76.7±5.8  81.4±0.7  79.5±1.0  76.1±2.8  52.6±2.8
ds-gin-ego+         91.0±4.8  68.7±7.0   76.7±4.4  82.0±1.4  80.3±0.9  77.1±2.6  53.2±2.8
ds-gin-ed^          90.5±5.8  66.0±6.4   77.0±3.2  82.8±1.1  82.9±1.2  76.2±2.4  52.9±2.8
ds-gin-nd^          90.0±6.0  66.0±8.7   77.3±3.8  83.0±1.9  82.3±0.7  75.5±2.2  52.6±2.9
ds-gin-ego^         91.0±5.3  68.4±7.4   76.7±4.4  81.5±1.1  79.6±1.5  76.6±2.5  52.6±2.8
ds-gin-ego+^        90.5±4.7  68.1±7.8   76.6±4.0  82.0±1.2  80.4±1.4  76.8±2.7  53.3±2.1
dss-gin-ed          91.0±4.8  66.6±7.3   75.8±4.5  83.4±2.5  82.8±0.9  76.8±4.3  53.5±3.4
dss-gin-nd          91.0±3.5  66.3±5.9   76.1±3.4  83.6±1.5  83.1±0.8  76.1±2.9  53.3±1.9
dss-gin-ego         91.0±4.7  68.2±5.8   76.7±4.1  83.6±1.8  82.5±1.6  76.5±2.8  53.3±3.1
dss-gin-ego+        91.1±7.0  69.2±6.5   75.9±4.3  83.7±1.8  82.8±1.2  77.1±3.0  53.2±2.4
graphconv           90.5±4.6  64.9±10.4  73.9±6.1  82.4±2.7  81.7±1.0  76.1±3.9  53.1±2.9
id-graphconv        89.4±4.1  65.4±7.1   71.9±4.6  83.4±2.4  82.9±1.2  76.1±2.5  53.7±3.3
rni-graphconv       91.0±4.9  64.3±6.1   73.3±3.3  82.1±1.7  81.7±1.0  75.5±3.3  53.1±1.9
ds-graphconv-ed     90.4±4.1  65.7±5.2   76.3±5.2  82.7±1.9  82.4±1.5  75.3±2.3  53.5±2.3
ds-graphconv-nd     88.3±5.1  66.6±7.8   76.8±3.9  82.9±2.5  82.7±1.3  75.7±2.9  53.5±2.1
ds-graphconv-ego    89.4±5.4  66.6±6.5   76.7±5.4  81.3±1.9  79.6±2.0  76.6±4.0  53.1±1.5
ds-graphconv-ego+   90.4±5.8  67.4±4.7   76.8±4.3  82.8±2.5  80.6±1.3  76.0±1.6  53.3±2.4
ds-graphconv-ed^    90.0±4.3  66.0±7.1   76.6±3.7  83.0±1.8  82.6±1.1  76.3±3.1  53.2±1.9
ds-graphconv-nd^    90.4±4.0  66.0±5.0   76.5±4.8  83.0±2.3  82.7±1.4  75.1±1.5  53.7±2.1
ds-graphconv-ego^   90.0±5.0  67.8±5.9   76.8±4.8  81.9±1.7  80.4±2.0  76.4±3.2  53.1±2.7
ds-graphconv-ego+^  91.5±5.3  67.0±5.5   76.5±4.0  82.0±1.2  80.5±1.7  76.4±2.7  53.3±2.6
dss-graphconv-ed    91.0±5.8  66.3±7.7   75.7±3.6  83.1±2.3  82.9±1.0  75.8±2.8  53.7±2.8
dss-graphconv-nd    90.6±5.2  65.4±5.8   76.2±5.0  83.7±1.7  82.4±1.3  75.1±3.2  53.3±2.6
dss-graphconv-ego   91.5±4.9  68.0±6.1   76.6±4.6  83.5±1.1  82.5±1.6  76.3±3.6  53.1±2.8
dss-graphconv-ego+  92.0±5.0  67.7±5.7   77.0±5.4  83.4±1.8  82.6±1.5  76.6±2.8  53.6±2.8
""",
    "tu-sampled": """
data              mutag     ptc       proteins  nci1      nci109    imdb-b    imdb-m    rdt-b
gin               -         -         -         -         -         -         -         92.4±2.5
ds-gin-ed-50%     89.9±5.6  67.7±5.9  76.9±3.8  83.0±1.8  83.0±1.0  76.3±2.6  52.9±2.6  -
ds-gin-ed-20%     90.5±5.2  66.3±5.3  77.1±4.5  83.6±1.9  82.9±1.6  76.2±2.4  53.2±2.4  -
ds-gin-ed-5%      88.8±6.5  65.7±7.3  76.8±4.6  83.8±1.9  82.7±1.8  76.2±2.8  53.3±2.4  92.7±1.0
ds-gin-nd-50%     88.9±4.3  66.2±6.8  76.8±5.2  83.1±1.5  82.7±1.6  75.5±2.8  52.9±2.2  -
ds-gin-nd-20%     88.9±5.5  66.0±6.1  77.2±2.9  84.0±1.6  82.7±0.8  75.5±1.6  52.5±2.9  -
ds-gin-nd-5%      88.3±4.5  66.3±8.7  77.3±4.1  83.7±2.2  82.8±0.7  75.5±3.9  52.1±1.8  92.4±1.2
ds-gin-ego-50%    89.9±5.6  67.5±5.8  76.9±4.6  81.7±1.4  80.3±0.8  76.8±2.3  52.4±2.7  -
ds-gin-ego-20%    88.3±5.8  67.5±8.8  77.3±4.1  80.7±1.1  78.3±2.1  76.9±2.6  52.8±2.6  -
ds-gin-ego-5%     86.8±7.1  67.7±8.6  76.9±4.4  77.0±1.9  74.0±1.6  76.9±3.5  52.3±2.8  89.0±2.0
ds-gin-ego+-50%   91.6±5.4  67.8±8.4  77.5±4.7  82.5±1.1  80.4±1.1  76.4±3.1  53.1±3.6  -
ds-gin-ego+-20%   91.5±6.0  66.3±8.0  77.1±4.4  81.5±1.6  79.0±2.1  76.2±2.3  52.6±1.6  -
ds-gin-ego+-5%    88.4±5.1  67.7±6.4  77.2±4.2  77.2±1.7  75.2±0.7  77.2±2.3  53.2±3.9  89.1±2.3
dss-gin-ed-50%    90.5±5.1  66.3±6.7  75.9±4.3  83.0±2.4  82.4±1.6  76.1±3.1  53.7±2.4  -
dss-gin-ed-20%    90.4±5.3  66.6±6.3  76.3±3.8  83.1±1.7  82.9±1.9  76.5±3.3  52.9±1.8  -
dss-gin-ed-5%     89.4±6.2  65.7±7.0  75.4±4.5  83.2±2.1  83.3±1.3  77.0±3.2  53.3±3.4  92.7±1.5
dss-gin-nd-50%    88.9±6.1  65.1±4.8  76.4±3.9  83.1±2.3  82.4±1.6  75.6±2.4  53.1±2.6  -
dss-gin-nd-20%    89.9±4.3  66.0±9.0  76.2±4.8  83.2±2.2  82.3±1.4  75.9±1.8  53.5±3.0  -
dss-gin-nd-5%     89.9±5.2  67.2±7.0  77.0±3.9  82.8±2.0  82.6±1.8  76.3±4.6  53.1±2.8  92.7±1.3
dss-gin-ego-50%   91.5±5.5  68.8±7.7  77.3±3.5  83.5±1.8  83.0±0.8  76.3±3.2  52.9±3.1  -
dss-gin-ego-20%   91.5±4.8  66.3±5.9  77.1±4.4  83.4±1.4  82.8±1.0  76.9±3.0  52.8±3.1  -
dss-gin-ego-5%    89.4±5.2  67.1±7.5  76.6±4.3  83.3±2.0  83.0±1.4  77.2±3.2  52.9±2.4  92.8±1.6
dss-gin-ego+-50%  91.0±5.8  66.9±7.4  77.1±3.0  83.7±1.4  83.0±1.7  76.4±4.1  53.0±3.1  -
dss-gin-ego+-20%  90.5±5.2  66.6±7.2  77.4±4.5  83.7±1.3  82.9±1.1  77.7±3.4  53.2±2.9  -
dss-gin-ego+-5%   89.4±5.2  67.2±6.3  76.8±3.1  83.3±1.4  83.2±1.3  77.1±1.9  53.5±2.6  93.3±1.3
""",
    "ogb": """
data          ogbg-molhiv  ogbg-moltox21
gcn           76.06±0.97   75.29±0.69
ds-gcn-ed     74.70±1.94   74.86±0.92
ds-gcn-nd     74.40±2.48   75.79±0.30
ds-gcn-ego    74.00±2.38   75.41±0.72
ds-gcn-ego+   73.84±2.58   74.74±0.96
dss-gcn-ed    76.00±1.41   75.34±0.69
dss-gcn-nd    75.17±1.35   75.56±0.59
dss-gcn-ego   76.16±1.02   76.14±0.53
dss-gcn-ego+  76.50±1.38   76.29±0.78
gin           75.58±1.40   74.91±0.51
ds-gin-ed     76.43±2.12   75.12±0.50
ds-gin-nd     76.19±0.96   75.34±1.21
ds-gin-ego    78.00±1.42   76.22±0.62
ds-gin-ego+   77.40±2.19   76.39±1.18
dss-gin-ed    77.03±1.81   76.71±0.67
dss-gin-nd    76.63±1.52   77.21±0.70
dss-gin-ego   77.19±1.27   77.45±0.41
dss-gin-ego+  76.78±1.66   77.95±0.40
""",
    "rni": """
data                exp       cexp
gin                 51.1±2.1  70.2±4.1
id-gin              100±0.0   100±0.0
ds-gin-ed           100±0.0   100±0.0
ds-gin-nd           100±0.0   100±0.0
ds-gin-ego          100±0.0   100±0.0
ds-gin-ego+         100±0.0   100±0.0
dss-gin-ed          100±0.0   100±0.0
dss-gin-nd          100±0.0   100±0.0
dss-gin-ego         100±0.0   100±0.0
dss-gin-ego+        100±0.0   100±0.0
graphconv           50.3±2.6  72.9±3.6
id-graphconv        100±0.0   100±0.0
ds-graphconv-ed     100±0.0   100±0.0
ds-graphconv-nd     100±0.0   100±0.0
ds-graphconv-ego    100±0.0   100±0.0
ds-graphconv-ego+   100±0.0   100±0.0
dss-graphconv-ed    100±0.0   100±0.0
dss-graphconv-nd    100±0.0   100±0.0
dss-graphconv-ego   100±0.0   100±0.0
dss-graphconv-ego+  100±0.0   100±0.0
""",
    "sampled": """
data              ogbg-molhiv  ogbg-moltox21  exp       cexp
ds-gin-ed-50%     76.29±1.33   74.59±0.71     100±0.0   100±0.0
ds-gin-ed-20%     76.57±1.48   75.67±0.89     100±0.0   99.9±0.2
ds-gin-ed-5%      77.82±1.00   76.39±1.11     99.7±0.4  99.9±0.2
ds-gin-nd-50%     77.23±1.32   74.82±1.05     100±0.0   99.9±0.2
ds-gin-nd-20%     77.65±0.84   75.66±0.46     100±0.0   99.9±0.2
ds-gin-nd-5%      78.26±1.02   76.51±1.04     97.2±1.1  99.8±0.8
ds-gin-ego-50%    76.52±0.72   75.98±0.72     100±0.0   99.9±0.2
ds-gin-ego-20%    77.49±1.32   75.88±0.50     99.9±0.2  96.8±1.5
ds-gin-ego-5%     73.92±1.78   74.95±0.54     93.5±1.3  83.9±3.8
ds-gin-ego+-50%   76.91±1.22   75.69±1.17     100±0.0   99.9±0.2
ds-gin-ego+-20%   75.92±1.59   75.84±0.63     99.7±0.4  97.0±1.4
ds-gin-ego+-5%    73.46±1.80   75.08±0.96     93.7±2.7  83.2±2.6
dss-gin-ed-50%    77.50±1.82   76.40±0.84     100±0.0   100±0.0
dss-gin-ed-20%    76.82±1.83   76.31±0.90     100±0.0   100±0.0
dss-gin-ed-5%     76.71±1.46   76.84±0.54     99.8±0.3  100±0.0
dss-gin-nd-50%    76.96±1.71   76.92±0.94     100±0.0   100±0.0
dss-gin-nd-20%    76.23±1.48   77.07±1.03     100±0.0   100±0.0
dss-gin-nd-5%     76.74±1.67   76.54±0.86     97.7±1.0  99.9±0.2
dss-gin-ego-50%   76.42±1.38   76.37±1.02     100±0.0   100±0.0
dss-gin-ego-20%   76.41±1.05   77.47±0.65     100±0.0   100±0.0
dss-gin-ego-5%    76.38±1.48   77.40±0.58     99.2±0.6  100±0.0
dss-gin-ego+-50%  76.88±0.93   76.42±0.93     100±0.0   100±0.0
dss-gin-ego+-20%  76.93±1.45   76.45±0.81     100±0.0   100±0.0
dss-gin-ego+-5%   75.97±0.80   76.70±0.56     99.5±0.6  100±0.0
""",
    "big-gin": """
data     mutag     proteins  nci1      nci109
big-gin  89.9±4.9  75.8±5.5  82.9±1.8  81.6±1.5
""",
    "zinc": """
data          zinc
gin           0.252±0.017
ds-gin-ed     0.172±0.008
ds-gin-nd     0.171±0.010
ds-gin-ego    0.126±0.006
ds-gin-ego+   0.116±0.009
dss-gin-ed    0.172±0.005
dss-gin-nd    0.166±0.004
dss-gin-ego   0.107±0.005
dss-gin-ego+  0.102±0.003
""",
    "csl": """
data                csl
gin                 10±0
ds-gin-ed           100±0
ds-gin-nd           100±0
ds-gin-ego          100±0
ds-gin-ego+         100±0
dss-gin-ed          100±0
dss-gin-nd          100±0
dss-gin-ego         100±0
dss-gin-ego+        100±0
graphconv           10±0
ds-graphconv-ed     100±0
ds-graphconv-nd     100±0
ds-graphconv-ego    100±0
ds-graphconv-ego+   100±0
dss-graphconv-ed    100±0
dss-graphconv-nd    100±0
dss-graphconv-ego   100±0
dss-graphconv-ego+  100±0
ds-gin-ed-50%       100±0
ds-gin-ed-20%       100±0
ds-gin-ed-5%        100±0
ds-gin-nd-50%       100±0
ds-gin-nd-20%       100±0
ds-gin-nd-5%        100±0
ds-gin-ego-50%      100±0
ds-gin-ego-20%      100±0
ds-gin-ego-5%       100±0
ds-gin-ego+-50%     100±0
ds-gin-ego+-20%     100±0
ds-gin-ego+-5%      100±0
dss-gin-ed-50%      100±0
dss-gin-ed-20%      100±0
dss-gin-ed-5%       100±0
dss-gin-nd-50%      100±0
dss-gin-nd-20%      100±0
dss-gin-nd-5%       100±0
dss-gin-ego-50%     100±0
dss-gin-ego-20%     100±0
dss-gin-ego-5%      100±0
dss-gin-ego+-50%    100±0
dss-gin-ego+-20%    100±0
dss-gin-ego+-5%     100±0
""",
}


@cache
def paper_values() -> dict[str, MeanStd]:
    """What the paper reports, by the name of the recipe; in the units of records, so percents as parts of 1."""
    found: dict[str, MeanStd] = {}
    for text in PRINTED.values():
        head, *rows = [line.split() for line in text.strip().splitlines()]
        for method, *cells in rows:
            for data, cell in zip(head[1:], cells, strict=True):
                if cell != "-":
                    mean, std = (float(number) for number in cell.split("±"))
                    unit = 1.0 if data == "zinc" else 100.0
                    found[f"{data}/{method}"] = MeanStd(mean / unit, std / unit)
    return found


def cited_recipe(name: str) -> str:
    """Which recipe's number of the paper a recipe is held against: of a variant on the same data what it changes."""
    base, _, changes = name.partition("~")
    return name if any(part.startswith("data=") for part in changes.split(",")) else base


@cache
def table_recipes() -> dict[str, tuple[str, ...]]:
    """The names of the recipes of each table, row by row."""
    rows: dict[str, tuple[str, ...]] = {}
    for table, text in PRINTED.items():
        head, *lines = [line.split() for line in text.strip().splitlines()]
        rows[table] = tuple(
            f"{data}/{line[0]}" for line in lines for data, cell in zip(head[1:], line[1:], strict=True) if cell != "-"
        )
    return rows
