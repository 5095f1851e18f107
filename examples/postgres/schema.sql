-- The input: Fisher's 150 irises in centimetres, from scikit-learn's copy (iris.csv).
create table iris (
    id           integer primary key,
    sepal_length double precision not null,
    sepal_width  double precision not null,
    petal_length double precision not null,
    petal_width  double precision not null
);
\copy iris from '/opt/irises/iris.csv' with (format csv, header)

-- The output, with the same columns as in Krateo's notebooks. counter is the position of the record in the input.
create table iris_predictions (
    jobuid     text not null,
    poduid     text not null,
    prediction double precision not null,
    counter    integer not null,
    created_at timestamp not null default current_timestamp,
    primary key (jobuid, poduid, counter)
);

-- The data handler can read the input and write predictions, nothing else.
create role data_handler login password :'password';
grant select on iris to data_handler;
grant select, insert, update on iris_predictions to data_handler;
